package nvlink_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/test/expect"
)

// TestBoards reads the default partitions of each board, as the Fabric Manager user guide lists
// them ("GPU Partitions"): every GPU is in one partition of each size, and those of one size do
// not overlap.
func TestBoards(t *testing.T) {
	for board, count := range map[string]int{"hgx-a100": 15, "hgx-h100": 15, "hgx-b200": 15} {
		list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/"+board+".json"))
		expect.NoError(t, err)
		sets := map[string]int{}
		for _, p := range list.Partitions {
			for _, module := range p.Modules {
				sets[fmt.Sprint(len(p.Modules), " with ", module)]++
			}
		}

		if len(list.Partitions) != count || len(sets) != 4*8 {
			t.Errorf("%s: %d partitions, %d sizes of its GPUs, want %d and 32", board,
				len(list.Partitions), len(sets), count)
		}

		for set, times := range sets {
			if times != 1 {
				t.Errorf("%s: %d partitions of %s", board, times, set)
			}
		}
	}
}

// TestTwoBoards reads the partitions of two A100 boards: a GPU is in three of eight GPUs, on its
// board or with four of each, and in one of each other size.
func TestTwoBoards(t *testing.T) {
	list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/hgx-a100-two.json"))
	expect.NoError(t, err)
	sizes, perGPU := map[int]int{}, map[nvlink.Module]map[int]int{}
	for _, p := range list.Partitions {
		sizes[len(p.Modules)]++
		first := 0
		for _, m := range p.Modules {
			if perGPU[m] == nil {
				perGPU[m] = map[int]int{}
			}

			perGPU[m][len(p.Modules)]++
			if m <= 8 {
				first++
			}
		}

		if first != 0 && first != len(p.Modules) && 2*first != len(p.Modules) {
			t.Errorf("partition %d has %d GPUs of the first board", p.ID, first)
		}
	}

	expect.Same(t, map[int]int{16: 1, 8: 6, 4: 4, 2: 8, 1: 16}, sizes, "sizes (-want +got)")

	for m, got := range perGPU {
		want := map[int]int{16: 1, 8: 3, 4: 1, 2: 1, 1: 1}
		expect.Same(t, want, got, "partitions of GPU %d by size (-want +got)", m)
	}
}

// TestPage compares the table of docs/devices.md with the boards' files.
func TestPage(t *testing.T) {
	page := string(expect.File(t, "../../../docs/devices.md"))
	for board, title := range map[string]string{
		"hgx-a100":     "A100, one board",
		"hgx-a100-two": "A100, two boards",
		"hgx-h100":     "H100, H200, H800, H20",
		"hgx-b200":     "B200, B300",
	} {
		list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/"+board+".json"))
		expect.NoError(t, err)
		cells := map[int][]string{}
		var single []int
		for _, p := range list.Partitions {
			if len(p.Modules) == 1 {
				single = append(single, p.ID)
				continue
			}

			text := fmt.Sprintf("%d: %s", p.ID, ranges(p.Modules))
			cells[len(p.Modules)] = append(cells[len(p.Modules)], text)
		}

		row := "| " + title + " |"
		for _, size := range []int{16, 8, 4, 2} {
			row += strings.TrimRight(" "+strings.Join(cells[size], ", "), " ") + " |"
		}

		row += fmt.Sprintf(" %d to %d |", single[0], single[len(single)-1])
		if !strings.Contains(page, row) {
			t.Errorf("the page does not have the row %s", row)
		}
	}
}

// ranges writes ids as the page does: "1–4 9–12", and "1 3" for ids apart.
func ranges(modules []nvlink.Module) string {
	var texts []string
	for i := 0; i < len(modules); {
		last := i
		for last+1 < len(modules) && modules[last+1] == modules[last]+1 {
			last++
		}

		switch last - i {
		case 0, 1:
			texts = append(texts, fmt.Sprint(modules[i]))
			i++
		default:
			texts = append(texts, fmt.Sprintf("%d–%d", modules[i], modules[last]))
			i = last + 1
		}
	}

	return strings.Join(texts, " ")
}

// TestParse reads addresses as NVML prints them, and zeros as unknown.
func TestParse(t *testing.T) {
	list, err := nvlink.Parse([]byte(`{"partitionInfo": [{"partitionId": 3, "isActive": 1, "numGpus": 2, "gpuInfo": [
		{"physicalId": 3, "pciBusId": "00000000:1B:00.0"}, {"physicalId": 1, "pciBusId": "00000000:00:00.0"}]}]}`))
	expect.NoError(t, err)
	if got := fmt.Sprint(list.Partitions, list.Addresses[3],
		len(list.Addresses)); got != "[{3 [1 3] true}] 0000:1b:00.0 1" {
		t.Errorf("got %s", got)
	}
}

// TestParseRefuses says where a list is wrong: a column is that of the last byte that was read.
func TestParseRefuses(t *testing.T) {
	partition := func(id, count int, gpus string) string {
		return fmt.Sprintf(`{"partitionId": %d, "numGpus": %d, "gpuInfo": [%s]}`, id, count, gpus)
	}

	const one = `{"physicalId": 1}`
	for input, want := range map[string]string{
		"": "parse partitions: line 1, column 1: invalid JSON; must be what fmpm -l prints",
		"Failed to get partition list. fmReturn: -3\n": "parse partitions: line 1, column 1: " +
			"invalid JSON; must be what fmpm -l prints",
		"{\r\n  \"partitionInfo\": [": "parse partitions: line 2, column ", // a file that was cut
		"{}": "parse partitions: partitionInfo has 0, must be " +
			"1 to 256, as fmpm -l prints them",
		"[{}]": "parse partitions: line 1, column 1: must be an object; must be what fmpm -l " +
			"prints",
		`{"partitionInfo": [{"partitionId": "1"}]}`: "parse partitions: line 1, column 38: field " +
			"partitionInfo.partitionId has the wrong type; must be what fmpm -l prints",
		`{"partitionInfo": [{"partitionId": -1}]}`: "parse partitions: line 1, column 37: field " +
			"partitionInfo.partitionId has the wrong type",
		`{"partitionInfo": [{"partitionId": 9223372036854775808}]}`: "parse partitions: line 1, " +
			"column 54: field partitionInfo.partitionId has the wrong type",
		`{"partitionInfo": [{"numGpus": 1}]}`: "parse partitions: entry 1 has no partitionId",
		`{"partitionInfo": [` + partition(1, 0, "") +
			`]}`: "partition 1: no gpuInfo",
		`{"partitionInfo": [` + partition(1, 2, one) +
			`]}`: "partition 1: numGpus is 2, and gpuInfo has 1",
		`{"partitionInfo": [` + partition(1, 2, one+","+one) +
			`]}`: "partition 1: a physicalId appears twice",
		`{"partitionInfo": [` + partition(1, 1, one) + `,` + partition(1, 1, one) +
			`]}`: "partition 1: appears twice",
		`{"partitionInfo": [` + partition(1, 1, `{"physicalId": 1, "pciBusId": "x"}`) +
			`]}`: `partition 1: invalid PCI address "x"`,
		`{"partitionInfo": [` + partition(1, 1, `{"physicalId": 1, "pciBusId": "0000:01:00.0"}`) +
			`,` +
			partition(2, 1, `{"physicalId": 1, "pciBusId": "0000:02:00.0"}`) +
			`]}`: "partition 2: physicalId 1 is at 0000:02:00.0, elsewhere at 0000:01:00.0",
		// pciBusId is filled in by hand where Fabric Manager does not say it
		`{"partitionInfo": [` + partition(1, 2, `{"physicalId": 4, "pciBusId": "0000:01:00.0"}, `+
			`{"physicalId": 3, "pciBusId": "0000:01:00.0"}`) +
			`]}`: "partition 1: physicalIds 3 and 4 are both at 0000:01:00.0",
		`{"partitionInfo": [` + partition(1, 1, `{"pciBusId": "0000:01:00.0"}`) +
			`]}`: "partition 1: a GPU has no physicalId",
		`{"partitionInfo": [` + partition(1, 1, `{"physicalId": -1}`) +
			`]}`: "parse partitions: line 1, column 81: field " +
			"partitionInfo.gpuInfo.physicalId has the wrong type",
	} {
		_, err := nvlink.Parse([]byte(input))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", input, err, want)
		}
	}
}
