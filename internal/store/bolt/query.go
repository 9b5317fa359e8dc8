package bolt

import (
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func query(tx *Tx, partition, prefix string, page store.Page) (records []store.Record, more bool, err error) {
	of := partitionPrefix(partition, len(prefix))
	start := append(of, prefix...)
	from := start
	if page.After != "" && page.After >= prefix {
		from = append(partitionPrefix(partition, len(page.After)+1), page.After...)
		from = append(from, 0) // the first key after it
	}
	size := 0
	for key, value := range tx.Scan(start, from) {
		r, err := decodeRecord(store.Key{Partition: partition, Sort: string(key[len(of):])}, value)
		if err != nil {
			return nil, false, err
		}
		size += len(partition) + len(r.Key.Sort) + len(r.Body)
		if len(records) > 0 && (len(records) == page.Limit || size > store.MaxPageBytes) {
			return records, true, nil
		}
		records = append(records, r)
	}
	return records, false, nil
}
