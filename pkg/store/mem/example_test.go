package mem_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

func ExampleStore_All() {
	s := mem.New()
	for _, task := range []string{"train", "infer"} {
		w := store.Write{Key: store.Key{Partition: "job/1", Sort: "task/" + task}, Expect: store.Absent, Body: []byte("ready")}
		if err := s.Commit(context.Background(), store.Tx{Writes: []store.Write{w}}); err != nil {
			log.Fatal(err)
		}
	}
	for r := range s.All() {
		fmt.Printf("%s is %s\n", r.Key, r.Body)
	}
	// Output:
	// job/1/task/infer is ready
	// job/1/task/train is ready
}
