import { Inject, Injectable } from '@nestjs/common';
import {
  type McpCaller,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
} from 'nestjs-mcp-streamable';

/** Part of your app: the language in the profile of a user. */
export abstract class Profiles {
  abstract languageOf(user: string | undefined): Promise<'en' | 'de'>;
}

// #region localised
const TEXTS = {
  en: {
    title: 'Opening hours',
    description: 'Says when the shop is open',
    hours: '9 to 5',
  },
  de: {
    title: 'Öffnungszeiten',
    description: 'Nennt die Öffnungszeiten',
    hours: '9 bis 17 Uhr',
  },
};

@McpCatalogue()
@Injectable()
export class LocalisedTools {
  constructor(@Inject(Profiles) private readonly profiles: Profiles) {}

  async list({ principal }: McpCaller): Promise<McpCatalogueTool[]> {
    const { title, description } = TEXTS[await this.profiles.languageOf(principal)];
    return [{ name: 'opening_hours', title, description }];
  }

  async call(_name: string, _args: object, { principal }: McpContext): Promise<string> {
    return TEXTS[await this.profiles.languageOf(principal)].hours;
  }
}
// #endregion
