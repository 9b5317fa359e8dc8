package host

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
)

// poolTimes are the times for machines that reach the broker over loopback. Calls are cheap there and none is lost,
// so changes of a machine are detected within seconds of wall time, however fast virtual time passes.
func poolTimes(virtual func(wall time.Duration) time.Duration) config.PoolTimes {
	t := config.DefaultPoolTimes()
	t.Beat, t.StaleAfter, t.LostAfter = virtual(time.Second), virtual(4*time.Second), virtual(8*time.Second)
	t.Busy, t.Idle, t.Full = virtual(300*time.Millisecond), virtual(time.Second), virtual(time.Second)
	t.Known, t.Turn = virtual(500*time.Millisecond), virtual(100*time.Millisecond)
	t.BlockFor = max(t.BlockFor, virtual(time.Minute))
	return t
}

// tokensFor is the minimum validity of pool tokens in wall time, however fast virtual time passes.
const tokensFor = 24 * time.Hour

// machineTokens makes and checks the tokens of pools' machines, with the key for agents' tokens.
func (h *Host) machineTokens(key []byte) *api.MachineTokens {
	lasts := max(tokensFor, time.Duration(float64(tokensFor)/h.clock.Wall(time.Hour).Hours()))
	return &api.MachineTokens{
		Mint:    func(c wire.PoolClaims) (string, error) { return token.MintPool(key, c) },
		Verify:  func(text string) (wire.PoolClaims, error) { return token.VerifyPool(key, text, h.clock.Now()) },
		JoinFor: lasts, MachineFor: lasts,
	}
}
