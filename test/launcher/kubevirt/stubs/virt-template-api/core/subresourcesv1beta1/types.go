// Package subresourcesv1beta1 is imported by virtctl, whose tests go mod tidy reads.
package subresourcesv1beta1
