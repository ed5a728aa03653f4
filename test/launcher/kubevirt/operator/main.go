// Command operator prints kubevirt-operator.yaml of a release (namespace, definition of KubeVirt,
// RBAC, virt-operator), with one image for all programs: operator IMAGE VERSION.
package main

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(image, version string) error {
	const namespace = "kubevirt"
	definition, err := components.NewKubeVirtCrd()
	if err != nil {
		return err
	}

	operator := components.NewOperatorDeployment(namespace, "", "", "", "2", version, "", image,
		image, image, image, image, image, image, image, image, image, image, image, image,
		corev1.PullIfNotPresent)
	one := int32(1)
	operator.Spec.Replicas = &one
	objects := append([]any{
		corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{
				Name: namespace, Labels: map[string]string{"kubevirt.io": ""},
			},
		},
		definition, components.NewKubeVirtPriorityClassCR(), operator,
	}, anys(rbac.GetAllOperator(namespace))...)

	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		fmt.Printf("---\n%s", text)
	}

	return nil
}

func anys[T any](list []T) (all []any) {
	for _, one := range list {
		all = append(all, one)
	}
	return all
}
