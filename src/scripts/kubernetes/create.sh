#!/bin/sh -eu
# Creates an object of the cluster.
# Standard input: the object.
kubectl create -f - >/dev/null
