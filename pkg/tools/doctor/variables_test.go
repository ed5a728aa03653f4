package doctor_test

import "hook-sidecar/pkg/reasons"

// variableTests tests the check of variables.go.
func variableTests() map[string]map[string]test {
	const count = " (the pod holds devices that the VM does not use: check the count in the VMI)"
	const other = " (check that the environment variables are those of this VM's compute container)"
	one := vmi(`"devices":{"gpus":[{"name":"one","deviceName":"nvidia.com/A10"}]}`, "")
	return map[string]map[string]test{
		"variables": {
			"the same": {given{
				host:    aHost,
				domain:  domainOf(gpu),
				vmi:     one,
				environ: []string{"PCI_RESOURCE_NVIDIA_COM_A10=0000:01:00.0"},
			}, []string{
				"PASS the domain has the devices of 1 environment variable",
			}},
			// Plugins that allocate IOMMU groups name the audio function too.
			"and a companion": {given{
				host:    aHost,
				domain:  domainOf(gpu),
				vmi:     one,
				environ: []string{"PCI_RESOURCE_NVIDIA_COM_A10=0000:01:00.1,0000:01:00.0"},
			}, []string{
				"PASS the domain has the devices of 1 environment variable",
			}},
			"one too many": {given{
				host:    aHost,
				domain:  domainOf(gpu),
				vmi:     one,
				environ: []string{"PCI_RESOURCE_NVIDIA_COM_A10=0000:01:00.0,0000:02:00.0"},
			}, []string{
				"WARN PCI_RESOURCE_NVIDIA_COM_A10 names devices that are not in the domain: " +
					"0000:02:00.0" + count,
			}},
			"of another pod": {given{
				host:    aHost,
				domain:  domainOf(gpu),
				vmi:     one,
				environ: []string{"PCI_RESOURCE_NVIDIA_COM_A10=0000:02:00.0"},
			}, []string{
				"WARN PCI_RESOURCE_NVIDIA_COM_A10 names devices that are not in the domain: " +
					"0000:02:00.0" + count,
				"WARN the environment variable of the resource does not name 0000:01:00.0" + other,
			}},
			"an invalid address": {given{
				host: aHost, environ: []string{"PCI_RESOURCE_NVIDIA_COM_A10=gpu0"},
			}, []string{
				`WARN PCI_RESOURCE_NVIDIA_COM_A10: invalid PCI address "gpu0": want ` +
					`domain:bus:device.function, such as 0000:17:00.0 (` +
					reasons.CodeBadVariable.Remedy() + ")",
			}},
			"none": {given{host: aHost, domain: domainOf(gpu)}, []string{
				"NOTE no environment variables PCI_RESOURCE_* or MDEV_PCI_RESOURCE_* (the " +
					"kubelet sets them in the compute container only; hook-sidecar doctor takes " +
					"them with --env)",
			}},
			"alone": {given{
				host: aHost, environ: []string{"PCI_RESOURCE_NVIDIA_COM_A10=0000:01:00.0"},
			}, []string{"PASS 1 environment variable"}},
		},
	}
}
