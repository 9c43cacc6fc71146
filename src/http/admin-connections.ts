// The connections of the admin port, or of the portal. Where all places are taken, the one that has waited longest for its client is closed
// for the new one. A probe sends its request at once, so clients that never send a whole one cannot lock it out.

import type { Socket } from 'node:net'
export class AdminConnections {
  readonly #most: number
  #open = 0
  /** Those whose client is to send or to read next; the one that has waited longest first. */
  readonly #waiting = new Set<Socket>()

  constructor(most: number) {
    this.#most = most
  }

  opened(socket: Socket): void {
    this.#open += 1
    this.#waiting.add(socket)
    socket.once('close', () => {
      this.#open -= 1
      this.#waiting.delete(socket)
    })
    if (this.#open <= this.#most) return
    const [oldest] = this.#waiting
    this.#waiting.delete(oldest)
    oldest.destroy()
  }

  /** A request has arrived. false: its client did not wait for the answer before, or leaves it unread, and is closed. */
  begins(socket: Socket): boolean {
    const isNext = this.#waiting.delete(socket) && socket.writableLength === 0
    if (!isNext) socket.destroy()
    return isNext
  }

  /** The rest of a body is awaited, or the next request. */
  waits(socket: Socket): void {
    if (!socket.destroyed) this.#waiting.add(socket)
  }

  /** The body is there. */
  goesOn(socket: Socket): void {
    this.#waiting.delete(socket)
  }
}
