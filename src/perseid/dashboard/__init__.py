"""The dashboard: a page in the browser over the journal of one or several roots, live and after the fact.

``journal_model`` alone reads journal records; all else works on the picture that it makes.
"""
