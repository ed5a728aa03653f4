package why

import "strings"

// hasAny reports whether a text has one of the parts.
func hasAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// hasAnyPrefix reports whether a text begins with one of the parts.
func hasAnyPrefix(text string, begins ...string) bool {
	for _, begin := range begins {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

// hasAnySuffix reports whether a text ends with one of the parts.
func hasAnySuffix(text string, ends ...string) bool {
	for _, end := range ends {
		if strings.HasSuffix(text, end) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
