"""One file per kind of data set; each turns listed sources into classes and splits."""
