// #region page
import {
  Body,
  Controller,
  Get,
  Inject,
  NotFoundException,
  Param,
  Post,
  Req,
  UseGuards,
} from '@nestjs/common';
import { McpConfirmations } from 'nestjs-mcp-streamable';
import { SignedIn } from './shop.service.js';

@Controller('confirm')
@UseGuards(SignedIn)
export class ConfirmController {
  constructor(
    @Inject(McpConfirmations) private readonly confirmations: McpConfirmations,
  ) {}

  @Get(':page')
  async show(
    @Param('page') page: string,
    @Req() { user }: { user: { id: string } },
  ): Promise<object> {
    const asked = await this.confirmations.find(page, user.id);
    if (!asked) throw new NotFoundException('There is nothing to confirm here.');
    return asked;
  }

  @Post(':page')
  async decide(
    @Param('page') page: string,
    @Body() { answer }: { answer: string },
    @Req() { user }: { user: { id: string } },
  ): Promise<object> {
    return {
      done: await this.confirmations.answer(
        page,
        user.id,
        answer === 'yes' ? 'accept' : 'decline',
      ),
    };
  }
}
// #endregion
