package cases

import "encoding/xml"

// The elements of JUnit's reports that GitHub's actions, GitLab and Jenkins read: a failure is a
// test that found something, an error one that could not run (GitLab docs, "Unit test reports").
// A library for five elements would be longer than they are. There is no time in them, so that two
// runs give the same bytes.
type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	File    string        `xml:"file,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",cdata"`
}

// JUnit returns outcomes as a report in JUnit's XML.
func JUnit(outcomes []Outcome) ([]byte, error) {
	suite := junitSuite{Name: "hook-sidecar test", Tests: len(outcomes)}
	for _, o := range outcomes {
		tested := junitCase{Class: "hook-sidecar", Name: o.Path, File: o.Path}
		switch {
		case o.Err != nil:
			suite.Errors++
			tested.Error = &junitProblem{Message: o.Err.Error()}
		case o.IsFailed():
			suite.Failures++
			tested.Failure = &junitProblem{Message: o.Reason(), Text: o.Details()}
		}
		suite.Cases = append(suite.Cases, tested)
	}

	data, err := xml.MarshalIndent(junitSuites{Suite: suite}, "", "  ")
	return append([]byte(xml.Header), append(data, '\n')...), err
}
