// What is asked of the service, and answered as JSON: by each process of itself, or by one for all from the stores.

import type { Pieces } from '../contract/admin/peers.ts'
import type { OfEach, OfStores } from '../contract/admin/words.ts'
import type { SilentNode } from './now/now.ts'
import type { Scope } from './scope.ts'

export interface Question {
  readonly name: OfEach | OfStores
  /** Holds wherever the question goes. */
  readonly scope: Scope
  /** As in the address. For a batch, `id` is in it too. */
  readonly query: string
  readonly body?: Buffer
}

/** `status`: an HTTP status; `json`: the answer's body. */
export interface Answer {
  readonly status: number
  readonly json: string
}

/** The answers of all processes. */
export interface Answers<Piece> {
  readonly pieces: readonly Piece[]
  /** Only for `now`. */
  readonly silent: readonly SilentNode[]
  /** Why others could not be asked; null: they were, or there are none. */
  readonly problem: string | null
}

/** This process, as far as it answers. */
export interface Own {
  readonly name: string
  answer(question: Question): Promise<Answer>
}

export interface Ask {
  /** Of a process with stores; this one, where it has them. */
  one(question: Question & { readonly name: OfStores }): Promise<Answer>
  /** Of this process, and of all that answer in time. */
  all<Name extends OfEach>(question: Question & { readonly name: Name }): Promise<Answers<Pieces[Name]>>
}

/** Of a service that has this process alone. */
export function alone(own: Own): Ask {
  return {
    one: (question) => own.answer(question),
    all: async (question) => ({ pieces: [await ownPiece(own, question)], silent: [], problem: null }),
  }
}

/** Of the form that the question asks for. */
export async function ownPiece<Name extends OfEach>(
  own: Own,
  question: Question & { readonly name: Name },
): Promise<Pieces[Name]> {
  return JSON.parse((await own.answer(question)).json) as Pieces[Name]
}

export function answerOf(value: object): Answer {
  return { status: 200, json: JSON.stringify(value) }
}
