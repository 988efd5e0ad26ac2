module kubexm.io/tests/gzip

go 1.26.0
