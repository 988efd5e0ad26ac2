module kubexm.io/lab/labtool

go 1.26.0
