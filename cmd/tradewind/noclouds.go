//go:build noclouds

package main

import "github.com/tradewind-broker/tradewind/internal/cli/clouds"

func support() clouds.Support { return clouds.None() }
