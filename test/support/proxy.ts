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
  const held: (() => void)[] = []
  let delayMs = 0
  let holding = false
  let refusing = false

  const relay = (from: Socket, to: Socket): void => {
    from.on('data', (piece) => {
      const pass = (): void => void (to.destroyed || to.write(piece))
      if (holding) held.push(pass)
      else if (delayMs > 0) setTimeout(pass, delayMs)
      else pass()
    })
    from.on('close', () => to.destroy())
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
      for (const pass of held.splice(0)) pass()
    },
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      cutAll()
      await closed
    },
  }
}
