//! Tests of doctor.
