//go:build !noclouds

package main

import (
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/everycloud"
)

func support() clouds.Support { return everycloud.Support() }
