package record

import "github.com/tradewind-broker/tradewind/pkg/store"

// PartHistory is the partition of task histories learned from earlier jobs.
const PartHistory = "history"

// HistoryKey is the key of the History of jobs with a name.
func HistoryKey(job string) store.Key { return store.Key{Partition: PartHistory, Sort: ShortHash(job)} }
