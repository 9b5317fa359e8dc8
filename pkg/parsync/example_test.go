package parsync_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// Two schedulers refresh three partitions in turns. They never refresh the same partition at the same time.
func ExampleRotation() {
	rotation, err := parsync.NewRotation(2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for turn := range uint64(3) {
		fmt.Println("turn", turn, "refreshes", rotation.Partition(0, turn), "and", rotation.Partition(1, turn))
	}
	// Output:
	// turn 0 refreshes 0 and 1
	// turn 1 refreshes 1 and 2
	// turn 2 refreshes 2 and 0
}
