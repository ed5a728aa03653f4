// Package env reads the environment variables that device plugins give a container. It
// returns values and logs nothing; an invalid variable becomes a warning.
package env
