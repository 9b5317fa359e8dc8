package market

// The tests of the package are outside of it.
var (
	ReadOnDemand = readOnDemand
	ReadQuotes   = readQuotes
	ReadSeries   = readSeries
	ReadTrace    = readTrace
)
