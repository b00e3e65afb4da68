//! Lists as meta.k8s.io Tables, which is how kubectl prints them.
