package lazyregexp

import "testing"

// TestNewInTest: an invalid pattern fails the tests of the package that has it.
func TestNewInTest(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an invalid pattern is found at its first use only")
		}
	}()
	New("(")
}

// TestNewInProgram: a program compiles an expression when it is first used.
func TestNewInProgram(t *testing.T) {
	defer func(before bool) { isTest = before }(isTest)
	isTest = false
	r := New("(")
	defer func() {
		if recover() == nil {
			t.Error("the first use of an invalid pattern does not panic")
		}
	}()
	r.MatchString("")
}
