package plan_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/plan"
)

func TestLimit(t *testing.T) {
	const text = `<domain type="kvm"><hostdev/><hostdev/></domain>` // 48 bytes, 4 < and 1 =
	for name, tt := range map[string]struct {
		limit domain.Limit
		want  string
	}{
		"none":            {domain.Limit{}, ""},
		"just fits":       {domain.Limit{Bytes: len(text), Signs: 5, Hostdevs: 2}, ""},
		"a byte too many": {domain.Limit{Bytes: len(text) - 1, Signs: 5}, "48 bytes"},
		"a sign too many": {domain.Limit{
			Bytes: len(text), Signs: 4,
		}, "5 of the signs < and ="},
		"a hostdev too many": {domain.Limit{Hostdevs: 1}, "2 hostdevs, the limit is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			result := plan.Planner{
				Sysfs: fstest.MapFS{}, Limit: tt.limit,
			}.Read(plan.Request{Domain: []byte(text)}).Plan()

			if string(result.Domain) != text {
				t.Errorf("the domain is now %s", result.Domain)
			}

			if tt.want == "" {
				if result.Err != nil {
					t.Error(result.Err)
				}
			} else if result.Err == nil || result.Kind != plan.Malformed ||
				!strings.Contains(result.Err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", result.Err, tt.want)
			}
		})
	}
}
