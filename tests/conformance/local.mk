# Tests of the promise that host programs behave as without the library.
