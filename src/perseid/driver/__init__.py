"""What runs beside the controller, in the driver."""
