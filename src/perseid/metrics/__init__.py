"""What can be measured of a running application, and the forms in which operators of clusters want it."""
