module kubexm.io/tests/integration/gzip

go 1.26.0
