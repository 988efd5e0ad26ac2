module kubexm.io/gzip-exact/tests

go 1.26.0
