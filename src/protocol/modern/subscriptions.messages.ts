import { shown } from '../../wire/wire.messages.js';

/** What users read of subscriptions. */
export const subscriptionMessages = {
  noFilter: (got: unknown) =>
    `"subscriptions/listen" needs params.notifications, an object that says what to be told of; got ${shown(got)}.`,
  badFlag: (name: string, got: unknown) =>
    `params.notifications.${name} must be true or false; got ${shown(got)}. Leave it out if you do not want it.`,
  badUris: (got: unknown) =>
    `params.notifications.resourceSubscriptions must be an array of URIs, as strings; got ${shown(got)}.`,
  tooManyUris: (count: number, max: number) =>
    `params.notifications.resourceSubscriptions has ${count} URIs; ${max} is the most. Ask for less, or open another subscription.`,
  longUri: (length: number, max: number) =>
    `A URI in params.notifications.resourceSubscriptions has ${length} characters; ${max} is the most.`,
  tooMany: (max: number) =>
    `This server has ${max} subscriptions, the most it may have ("maxSubscriptions"). Try again later.`,
  tooManyOfPrincipal: (max: number) =>
    `There are ${max} subscriptions of this caller, the most that one may have; anonymous callers count as one ("maxSubscriptionsPerPrincipal"). Close one, or try again later.`,
  failed: () => 'The subscription could not be opened. The log of the server says why.',
  nothingToAsk: () =>
    'The client cannot be asked while it is decided what a subscription may hear of. Ask in a handler.',
};
