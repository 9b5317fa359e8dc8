package market

// These are exported for the tests, which are in another package.
var (
	ReadOnDemand = readOnDemand
	ReadQuotes   = readQuotes
	ReadSeries   = readSeries
	ReadTrace    = readTrace
)
