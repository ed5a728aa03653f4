package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/topology"
)

// flagError says of a flag what pflag found wrong with it, in the words of the
// other errors.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	var lacks *pflag.ValueRequiredError
	switch {
	case errors.As(err, &bad):
		return fmt.Errorf("flag --%s: %q is %s", bad.GetFlag().Name, topology.Abridge(bad.GetValue()), unlike(bad.GetFlag().Value.Type()))
	case errors.As(err, &lacks):
		return fmt.Errorf("flag --%s: it needs a value", lacks.GetFlag().Name)
	}
	return err
}

// unlike says what a value is not that a flag of a type does not take.
func unlike(kind string) string {
	switch kind {
	case "bool":
		return "neither true nor false"
	case "int":
		return "no number"
	}
	return "no " + kind
}

// exclude refuses two flags that contradict each other.
func exclude(cmd *cobra.Command, one, other string) error {
	if !cmd.Flags().Changed(one) || !cmd.Flags().Changed(other) {
		return nil
	}
	return failure{exitFailed, fmt.Errorf("flags --%s and --%s exclude each other", one, other), fmt.Sprintf("see %s --help", cmd.CommandPath())}
}
