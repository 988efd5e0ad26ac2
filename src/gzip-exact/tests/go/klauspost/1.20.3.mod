module kubexm.io/gzip-exact/tests/klauspost

go 1.25

require (
	github.com/klauspost/compress v1.20.3
	github.com/klauspost/pgzip v1.3.0
)
