package dynamo

import (
	"maps"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Meter counts the requests and units of a store by DynamoDB's rules ("Read and write request units" in the
// developer guide): a write unit is one started kilobyte, twice that in a transaction; a read unit is four started
// kilobytes of a consistent read. The Meter computes units from the sizes sent and received, because not every
// emulator reports them. It uses only the new item's size for a write, although DynamoDB uses the larger of new and
// old; a delete and a check count as the smallest write. Usage.Reported is what the database itself reported.
//
// A Meter is safe for concurrent use and for several stores. A nil Meter counts nothing.
type Meter struct {
	mu    sync.Mutex
	usage Usage
}

// Usage is the total use that a Meter counted.
type Usage struct {
	Total       Units
	ByOperation map[string]Units // by the API's name: GetItem, TransactWriteItems, …
	Reported    float64          // capacity units, reads and writes together, as reported by the database
}

// Units are requests and the capacity they used.
type Units struct {
	Requests    int
	Read, Write float64
}

func (u *Units) add(o Units) {
	u.Requests += o.Requests
	u.Read += o.Read
	u.Write += o.Write
}

// Usage returns the use so far.
func (m *Meter) Usage() Usage {
	if m == nil {
		return Usage{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	u.ByOperation = maps.Clone(u.ByOperation)
	return u
}

// Prices of on-demand tables in us-east-1, USD for one unit (aws.amazon.com/dynamodb/pricing/on-demand).
const (
	usdWriteUnit = 0.625e-6
	usdReadUnit  = 0.125e-6
)

// USD returns the cost of the units at list prices in us-east-1.
func (u Units) USD() float64 { return u.Read*usdReadUnit + u.Write*usdWriteUnit }

// level returns which capacity report to request from the database.
func (m *Meter) level() types.ReturnConsumedCapacity {
	if m == nil {
		return types.ReturnConsumedCapacityNone
	}
	return types.ReturnConsumedCapacityTotal
}

func (m *Meter) count(operation string, u Units, reported ...types.ConsumedCapacity) {
	if m == nil {
		return
	}
	u.Requests = 1
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage.Total.add(u)
	if m.usage.ByOperation == nil {
		m.usage.ByOperation = make(map[string]Units)
	}
	sum := m.usage.ByOperation[operation]
	sum.add(u)
	m.usage.ByOperation[operation] = sum
	for _, c := range reported {
		m.usage.Reported += aws.ToFloat64(c.CapacityUnits)
	}
}

func optional(c *types.ConsumedCapacity) []types.ConsumedCapacity {
	if c == nil {
		return nil
	}
	return []types.ConsumedCapacity{*c}
}

func startedUnits(bytes, of int) float64 { return float64(max(1, (bytes+of-1)/of)) }

const readUnit = 4 << 10

// read counts items that are billed together (a query), as at least atLeast units.
func (m *Meter) read(operation string, items []item, atLeast float64, reported *types.ConsumedCapacity) {
	if m == nil {
		return
	}
	size := 0
	for _, it := range items {
		size += itemBytes(it)
	}
	m.count(operation, Units{Read: max(atLeast, startedUnits(size, readUnit))}, optional(reported)...)
}

// readBatch counts items that are billed separately; a missing key costs one unit.
func (m *Meter) readBatch(operation string, items []item, keys int, reported []types.ConsumedCapacity) {
	if m == nil {
		return
	}
	u := Units{Read: float64(max(0, keys-len(items)))}
	for _, it := range items {
		u.Read += startedUnits(itemBytes(it), readUnit)
	}
	m.count(operation, u, reported...)
}

func (m *Meter) write(operation string, items []item, reported *types.ConsumedCapacity) {
	if m == nil {
		return
	}
	sizes := make([]int, len(items))
	for i, it := range items {
		sizes[i] = itemBytes(it)
	}
	m.writeSizes(operation, sizes, optional(reported)...)
}

func (m *Meter) writeSizes(operation string, sizes []int, reported ...types.ConsumedCapacity) {
	var u Units
	for _, n := range sizes {
		u.Write += startedUnits(n, unit)
	}
	m.count(operation, u, reported...)
}

func (m *Meter) transact(actions []types.TransactWriteItem, reported []types.ConsumedCapacity) {
	if m == nil {
		return
	}
	var u Units
	for _, a := range actions {
		size := 0
		switch {
		case a.Put != nil:
			size = itemBytes(a.Put.Item)
		case a.Update != nil:
			size = itemBytes(a.Update.Key) + itemBytes(a.Update.ExpressionAttributeValues)
		}
		u.Write += 2 * startedUnits(size, unit)
	}
	m.count("TransactWriteItems", u, reported...)
}
