//! The core's traits over rdkafka.
