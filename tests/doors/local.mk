# Tests of the doors: each way in, each language.
