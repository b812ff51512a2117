"""The runs of a database in a browser (`evo ui`): `pages` builds the list of runs and the page of each, `server`
answers requests with them."""
