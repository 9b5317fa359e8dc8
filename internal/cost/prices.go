package cost

// Source of the prices. They exclude free tiers. Free tiers with a large effect are noted.
const (
	PricesDate   = "2025-11"
	PricesRegion = "us-east-1"
	PricesSource = "aws.amazon.com/SERVICE/pricing, on demand, without free tiers"
)

// Line is an item that AWS charges for.
type Line int

// The lines of a bill.
const (
	LambdaRequests Line = iota
	LambdaSeconds
	TableWrites
	TableReads
	BusEvents
	QueueRequests
	QueuePolls
	APIRequests
	ObjectWrites
	ObjectReads
	LogBytes
	ScheduleRuns
	lines
)

// price is the price of a line.
type price struct {
	Service, Unit string
	USD           float64 // for one unit
}

const million = 1e-6

// prices returns all prices; no other code has a price.
func prices() [lines]price {
	return [lines]price{
		LambdaRequests: {"Lambda", "requests", 0.20 * million},
		LambdaSeconds:  {"Lambda", "GB-seconds (arm64)", 0.0000133334},
		TableWrites:    {"DynamoDB", "write request units", 0.625 * million},
		TableReads:     {"DynamoDB", "read request units", 0.125 * million},
		BusEvents:      {"EventBridge", "events (64 KB)", 1.00 * million},
		QueueRequests:  {"SQS", "requests (64 KB)", 0.40 * million},
		QueuePolls:     {"SQS", "empty polls, of a million a month", 0},
		APIRequests:    {"HTTP API", "requests", 1.00 * million},
		ObjectWrites:   {"S3", "PUT and LIST requests", 5.00 * million},
		ObjectReads:    {"S3", "GET requests", 0.40 * million},
		LogBytes:       {"CloudWatch Logs", "GB", 0.50},
		ScheduleRuns:   {"EventBridge Scheduler", "runs", 1.00 * million},
	}
}

// Prices of an idle deployment's storage, USD for a GB and month.
const (
	usdTableGB  = 0.25
	usdBackupGB = 0.20 // point-in-time recovery
	usdBucketGB = 0.023
)

// Lambda's polls of an enabled queue: five concurrent long polls of 20 seconds, whether or not messages arrive
// (Lambda developer guide, "Using Lambda with Amazon SQS"). SQS's price list has a permanent free tier of a million
// requests a month for each account. Polls beyond it are charged as requests.
const (
	pollers      = 5
	pollsPerHour = pollers * 3600 / 20
	freePolls    = 1e6
)
