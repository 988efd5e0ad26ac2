module kubexm.io/gzip-exact/tests/klauspost

go 1.25

require (
	github.com/klauspost/compress v1.19.2
	github.com/klauspost/pgzip v1.2.6
)
