// A TCP relay between the service and what it depends on, which delays, holds or cuts what passes.

import { connect, createServer, type Server, type Socket } from 'node:net'

export interface Proxy {
  readonly port: number
  /** From now on each piece takes so long in each direction. */
  delay(ms: number): void
  /** Cuts every connection and takes no new ones until `heal`. */
  cut(): void
  /** Swallows what comes, on connections that stay open, until `heal`; what was swallowed is then delivered. */
  hold(): void
  heal(): void
  stop(): Promise<void>
}

export async function startProxy(targetPort: number): Promise<Proxy> {
  const sockets = new Set<Socket>()
  /** One for each direction of each connection: passes on what is due. */
  const flushes = new Set<() => void>()
  let delayMs = 0
  let holding = false
  let refusing = false

  const relay = (from: Socket, to: Socket): void => {
    // In the order in which they came, whatever the delay was then and is now.
    const waiting: { piece: Buffer; dueMs: number }[] = []
    const flush = (): void => {
      if (holding) return
      const untilMs = delayMs === 0 ? Number.POSITIVE_INFINITY : performance.now()
      while (waiting.length > 0 && waiting[0].dueMs <= untilMs) {
        const next = waiting.shift()
        if (next !== undefined && !to.destroyed) to.write(next.piece)
      }
    }
    flushes.add(flush)
    from.on('data', (piece: Buffer) => {
      waiting.push({ piece, dueMs: performance.now() + delayMs })
      // A timer may fire a little early.
      if (delayMs > 0) setTimeout(flush, delayMs + 1)
      else flush()
    })
    from.on('close', () => {
      flushes.delete(flush)
      to.destroy()
    })
    from.on('error', () => to.destroy())
  }
  const server: Server = createServer((client) => {
    if (refusing) {
      client.destroy()
      return
    }
    const upstream = connect(targetPort, '127.0.0.1')
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true)
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    }
    relay(client, upstream)
    relay(upstream, client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cutAll = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as { port: number }).port,
    delay: (ms) => {
      delayMs = ms
    },
    cut: () => {
      refusing = true
      cutAll()
    },
    hold: () => {
      holding = true
    },
    heal: () => {
      refusing = false
      holding = false
      delayMs = 0
      for (const flush of flushes) flush()
    },
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      cutAll()
      await closed
    },
  }
}
