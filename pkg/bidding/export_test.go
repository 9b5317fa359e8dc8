package bidding

// The tests of the package are outside of it.
var (
	BeginGain = beginGain
)
