// @ts-check
// How prepared bodies lie in files of bytes: one after the other, each with a stand-in for the app's key. Pure.

/** Stands in every prepared body where the app's key goes. */
export const KEY_PLACEHOLDER = 'ak_placeholder_of_load'

/** @param {{ body: string, events: number, seed: number }} settings */
export function packName({ body, events, seed }) {
  return `${body}-${events}-${seed}`
}

/** A pack is in parts: one is what a virtual user holds. @param {string} path of the pack @param {number} part */
export function partName(path, part) {
  return `${path}-${part}.bin`
}

/** @param {string} text ASCII @returns {Uint8Array} */
export function asciiBytes(text) {
  const bytes = new Uint8Array(text.length)
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit > 0x7f) throw new Error('an app key is ASCII')
    bytes[index] = unit
  }
  return bytes
}

/**
 * A body with the app's key in place of the stand-in.
 * @param {ArrayBuffer} pack @param {readonly number[]} place where the body begins, where its key stands, where it ends
 * @param {Uint8Array} key @returns {ArrayBuffer}
 */
export function cutBody(pack, [start, keyAt, end], key) {
  if (key.length === KEY_PLACEHOLDER.length) {
    const same = pack.slice(start, end)
    new Uint8Array(same).set(key, keyAt - start)
    return same
  }
  const body = new Uint8Array(end - start - KEY_PLACEHOLDER.length + key.length)
  body.set(new Uint8Array(pack, start, keyAt - start))
  body.set(key, keyAt - start)
  const rest = keyAt + KEY_PLACEHOLDER.length
  body.set(new Uint8Array(pack, rest, end - rest), keyAt - start + key.length)
  return body.buffer
}
