//go:build tools

// Package tools pins what the tests run beside the project: a real API server and its store.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
