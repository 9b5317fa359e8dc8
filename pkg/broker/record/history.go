package record

import "github.com/tradewind-broker/tradewind/pkg/store"

// PartHistory is the partition of what was learned of earlier jobs.
const PartHistory = "history"

// HistoryKey is the key of the History of the jobs of a name.
func HistoryKey(job string) store.Key { return store.Key{Partition: PartHistory, Sort: ShortHash(job)} }
