// Time as a parameter: what needs the hour is given one of these.

/** Unix time in ms, as an integer. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()
