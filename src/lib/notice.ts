// Messages that a part of the service has for its operator.

/** A sentence for the log, where something changes. 'info': good news, such as the end of an outage; by default a warning. */
export type OnNotice = (message: string, level?: 'info' | 'error') => void
