// Says on the console what the client takes, sends, keeps and drops.

import { attempt, type Platform } from './platform.ts'
import type { Options, SluiceEvent } from './types.ts'

type Explained = { readonly platform: Platform; readonly options: Options }

export function explained(platform: Platform, options: Options): Explained {
  const { beforeSend, onDropped, onHeld } = options
  const say = (text: string, ...more: unknown[]): void => attempt(() => console.debug(`sluice: ${text}`, ...more))
  const send: typeof fetch = async (...given) => {
    say(`sends a batch`)
    try {
      const response = await platform.fetch(...given)
      say(`the answer is ${response.status}`)
      return response
    } catch (error) {
      say('no answer came', error)
      throw error
    }
  }
  return {
    platform: { ...platform, fetch: send },
    options: {
      ...options,
      beforeSend(given) {
        const event = beforeSend ? beforeSend(given) : given
        if (event) say(`took ${event.type} ${event.name}`, event)
        return event
      },
      onDropped(reason, events: readonly SluiceEvent[]) {
        say(`dropped ${events.length} events: ${reason}`, events)
        onDropped?.(reason, events)
      },
      onHeld(reason, events) {
        say(`keeps ${events.length} events: ${reason}`)
        onHeld?.(reason, events)
      },
    },
  }
}
