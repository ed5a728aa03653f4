package cluster

import (
	"cmp"
	"fmt"
	"slices"
)

// Each reads VMs, some at a time, and shows each when it is read; progress is told a line between,
// and "" before a VM is shown. It prefers VMs on the node with the fewest reads in flight: a slow
// node delays its own VMs only. It returns a result and an error per VM.
func Each[T any](
	all []Instance, concurrency int, progress func(string), read func(Instance) (T, error),
	show func(T, error),
) (results []T, failures []error) {
	done, reading, waiting := make(chan int), map[string]int{}, make([]int, len(all))
	for i := range waiting {
		waiting[i] = i
	}

	byNode := func(x, y int) int { return cmp.Compare(reading[all[x].Node], reading[all[y].Node]) }
	results, failures = make([]T, len(all)), make([]error, len(all))
	for started, ended := 0, 0; ended < len(all); {
		if started < len(all) && started-ended < concurrency {
			next := slices.MinFunc(waiting, byNode)
			waiting = slices.DeleteFunc(waiting, func(i int) bool { return i == next })
			reading[all[next].Node]++
			started++
			go func() {
				results[next], failures[next] = read(all[next])
				done <- next
			}()

			continue
		}

		progress(fmt.Sprintf("%d of %d VMs read", ended, len(all)))
		i := <-done
		reading[all[i].Node]--
		ended++
		progress("")
		show(results[i], failures[i])
	}

	return results, failures
}
